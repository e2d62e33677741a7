-- Loads Headwater's plugin into Flux's job shells: a file for the directory lua.d/ of the shell's configuration.
--   command   the command, on a local disk of each node
--   default   the setting of jobs without -o headwater: off, on, job (in the session of the batch job, if it has
--             one), or options of `headwater start` without dashes, separated by commas, such as level=low,shared=/sw

-- A pattern: where the file is missing, and where it can't be loaded, jobs run without it.
local done, why = pcall(plugin.load, {
  file = "/usr/lib/headwater/headwater_flux[.]so",
  conf = { command = "/usr/bin/headwater", default = "off" },
})
if not done then
  shell.log("headwater: " .. tostring(why))
end
