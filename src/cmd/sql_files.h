/* The files of sql/, as they are: sql/embed.cmake makes the strings. */
#ifndef RELAY_CMD_SQL_FILES_H
#define RELAY_CMD_SQL_FILES_H

extern const char sql_names[];
extern const char sql_table[];
extern const char sql_trigger[];
extern const char sql_role[];
extern const char sql_uninstall[];

#endif
