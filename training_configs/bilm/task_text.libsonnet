// The text to tune a biLM on: that of the task in ELMO_FINETUNE_TASK, from the same files that its experiments read;
// without one, the text in ELMO_BILM_TRAIN and ELMO_BILM_DEV.
local settings = import '../lib/settings.libsonnet';

local tasks = {
  coref: import '../coref/base.libsonnet',
  ner: import '../ner/base.libsonnet',
  snli: import '../snli/base.libsonnet',
  squad: import '../squad/base.libsonnet',
  // The two separately, as in the supplement's table.
  squad_contexts: self.squad,
  squad_questions: self.squad,
  srl: import '../srl/base.libsonnet',
  sst: import '../sst/base.libsonnet',
};
// Which of a task's texts are meant; all, unless it is named here.
local fields = { squad_contexts: ['passage'], squad_questions: ['question'] };
local name = settings.string('ELMO_FINETUNE_TASK');
local task = if std.objectHas(tasks, name) then tasks[name]
else error "ELMO_FINETUNE_TASK is '%s', but must be one of %s." % [name, std.join(', ', std.objectFields(tasks))];

if name == '' then {} else {
  local config = self,
  // A task may train on parts of its sentences (SST's phrases); its validation reader gives each sentence once.
  local reader = std.get(task, 'validation_dataset_reader', task.dataset_reader),
  dataset_reader: { type: 'elmo::bilm', task_reader: reader, [if name in fields then 'fields']: fields[name] },
  train_data_path: task.train_data_path,
  validation_data_path: task.validation_data_path,
  vocabulary+: { reader: config.dataset_reader, min_count: 1 },
}
