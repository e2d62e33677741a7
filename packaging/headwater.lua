-- Headwater, for Lmod: the prefix is that of the installation.
help([[Headwater serves a job's libraries, modules and small files from each node's memory: headwater help]])
whatis("Name: Headwater")
whatis("Description: starts parallel programs without a storm of requests on the shared file system")
local prefix = "/usr/bin/headwater"
prefix = prefix:gsub("/bin/headwater$", "")
-- These prefixes are on all paths already, and to unload the module would remove them.
if prefix ~= "/usr" and prefix ~= "/usr/local" then
  prepend_path("PATH", pathJoin(prefix, "bin"))
  prepend_path("MANPATH", pathJoin(prefix, "share/man"))
  -- For programs that are compiled with pspawn.h. Not LD_LIBRARY_PATH: every process would search there first.
  prepend_path("CPATH", pathJoin(prefix, "include"))
  prepend_path("LIBRARY_PATH", pathJoin(prefix, "lib"))
end
