# Turns each file into a C string, which HEADER declares: with PREFIX sql_, sql/table.sql → sql_table.
#   cmake -DOUTPUT=sql_files.c -DPREFIX=sql_ -DHEADER=cmd/sql_files.h "-DFILES=a.sql;b.sql" -P embed.cmake
set(source "#include \"${HEADER}\"\n")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n\t\"" text "${text}")
  string(APPEND source "\nconst char ${PREFIX}${name}[] =\n\t\"${text}\";\n")
endforeach()
file(WRITE "${OUTPUT}" "${source}")
