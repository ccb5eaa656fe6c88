// The one way for a config to read an environment variable:
//
//   local settings = import '../lib/settings.libsonnet';
//   { train_data_path: settings.required('ELMO_NER_TRAIN'), random_seed: settings.number('ELMO_SEED') }
//
// The names, defaults and meanings are in the plugin's table ('python -m elmo_plugin.settings' prints it). An empty
// value counts as not set. `std.extVar` knows only the table's variables, so a name that isn't in it is an error too.

// jsonnet is lazy: these are evaluated only where nothing better is at hand.
local missing(name) =
  error 'Set %s to %s.' % [name, std.parseJson(std.extVar('ELMO_SETTINGS_HELP'))[name]];

local wrong(name, value, expected) =
  error "%s is '%s', but must be %s." % [name, value, expected];

local is_number(text) =
  std.length(text) > 0
  && std.all([std.member('0123456789+-.eE', character) for character in std.stringChars(text)])
  && std.member('0123456789', text[std.length(text) - 1]);

{
  // The text as it is, perhaps empty.
  string(name):: std.extVar(name),

  // The text, or `otherwise` where it isn't set.
  optional(name, otherwise):: if std.extVar(name) == '' then otherwise else std.extVar(name),

  // The text; where it isn't set, an error that says what to set it to.
  required(name):: self.optional(name, missing(name)),

  // A number; where it isn't set, `otherwise` or an error.
  number(name, otherwise=missing(name))::
    local text = std.extVar(name);
    if text == '' then otherwise
    else if is_number(text) then std.parseJson(text)
    else wrong(name, text, 'a number'),

  // true or false, also as 1 and 0, yes and no; where it isn't set, `otherwise` or an error.
  bool(name, otherwise=missing(name))::
    local text = std.asciiLower(std.extVar(name));
    if text == '' then otherwise
    else if std.member(['true', '1', 'yes'], text) then true
    else if std.member(['false', '0', 'no'], text) then false
    else wrong(name, text, 'true or false'),

  // A JSON object; where it isn't set, an empty one.
  object(name)::
    local text = std.extVar(name);
    local value = if text == '' then {} else std.parseJson(text);
    if std.isObject(value) then value else wrong(name, text, 'a JSON object'),
}
