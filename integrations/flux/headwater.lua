-- A plugin of Flux's job shell: the tasks of `flux run -o headwater=FILE` take part in the session of
-- `headwater start` that has this file.
--
-- A plugin in Lua can change a task's variables and not its command (flux-shell-initrc(5)). Variables are all that
-- audit needs, so the session must be one of `--via audit`. On any failure the task runs as without this plugin.

local function quoted(argument)
  return "'" .. tostring(argument):gsub("'", "'\\''") .. "'"
end

-- Returns the variables that a program gets when it attaches to its node agent; empty if it can't be served.
local function variables(job)
  local command = "env -i"
  local function add(argument)
    command = command .. " " .. quoted(argument)
  end
  for _, name in ipairs { "HOME", "HEADWATER_LIBDIR" } do
    if shell.getenv(name) then
      add(name .. "=" .. shell.getenv(name))
    end
  end
  add("FLUX_TASK_RANK=" .. task.info.rank)
  add("FLUX_TASK_LOCAL_ID=" .. task.info.localid)
  add("FLUX_JOB_SIZE=" .. shell.info.ntasks)
  add("FLUX_JOB_NNODES=" .. shell.info.size)
  add(shell.getenv("HEADWATER_BINARY") or "/usr/bin/headwater")
  command = command .. " exec --job " .. quoted(job)
  if shell.getenv("HEADWATER_STORE") then
    command = command .. " --store " .. quoted(shell.getenv("HEADWATER_STORE"))
  end
  command = command .. " -- /usr/bin/env"
  local found = {}
  local output = assert(io.popen(command))
  for line in output:lines() do
    local name, value = line:match("^([%w_]+)=(.*)$")
    if name == "LD_AUDIT" or name and name:match("^HEADWATER_") then
      found[name] = value
    end
  end
  output:close()
  return found
end

local function attach(job)
  local found = variables(job)
  if not found.HEADWATER_TABLE then
    if found.HEADWATER_SESSION then
      shell.log("headwater: this node does not serve by audit: start the session with `headwater start --via audit`")
    end
    return
  end
  local own = task.getenv("LD_AUDIT")
  if own and own ~= "" then
    found.LD_AUDIT = found.LD_AUDIT .. ":" .. own
  end
  for name, value in pairs(found) do
    task.setenv(name, value)
  end
end

local job = shell.options.headwater
if type(job) == "string" and job:sub(1, 1) == "/" then
  plugin.register {
    name = "headwater",
    handlers = {
      {
        topic = "task.init",
        fn = function()
          -- An error would end the job.
          local done, why = pcall(attach, job)
          if not done then
            shell.log("headwater: " .. tostring(why))
          end
        end,
      },
    },
  }
elseif job ~= nil then
  shell.log("headwater: write -o headwater=FILE, the file of a session, as $HOME/.headwater/$(headwater start …)")
end
