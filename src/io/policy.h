/* The content security policy of a page that has its style and its script in itself: nothing but these two runs, and
 * nothing but the page's own server is asked (https://www.w3.org/TR/CSP3/). */
#ifndef RELAY_IO_POLICY_H
#define RELAY_IO_POLICY_H

#include "base/str.h"

/* Adds the header's value. html: with one <style> and one <script>, written just so; what is in them is allowed by its
 * hash. */
void policy_of(const char *html, struct buf *out);

#endif
