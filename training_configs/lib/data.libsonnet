// Where an experiment's data lies: one variable a file, each named once in the plugin's table (python -m
// elmo_plugin.settings).
local settings = import 'settings.libsonnet';

{
  // The path in a variable, or an error that names it.
  path(variable):: settings.required(variable),
}
