# Turns each SQL file into a C string named after it: sql/table.sql → sql_table.
#   cmake -DOUTPUT=sql_files.c "-DFILES=a.sql;b.sql" -P embed.cmake
set(source "#include \"cmd/sql_files.h\"\n")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n\t\"" text "${text}")
  string(APPEND source "\nconst char sql_${name}[] =\n\t\"${text}\";\n")
endforeach()
file(WRITE "${OUTPUT}" "${source}")
