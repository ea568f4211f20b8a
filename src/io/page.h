/* The page that the probe shows at /: src/io/page.html, as it is. sql/embed.cmake makes the string. */
#ifndef RELAY_IO_PAGE_H
#define RELAY_IO_PAGE_H

extern const char probe_page[];

#endif
