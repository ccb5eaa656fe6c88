// One archive of many: models of one task that differ by their seed, whose distributions are averaged.
//
// ELMO_ENSEMBLE_ARCHIVES: the members' model.tar.gz files, separated by commas. ELMO_ENSEMBLE_OF: the experiment they
// are runs of, such as snli/elmo or ner/baseline, which says how their data are read. The archive that this makes is
// evaluated and predicted from like any other, and no longer needs the members'.
//
//   export ELMO_ENSEMBLE_OF=snli/elmo ELMO_ENSEMBLE_ARCHIVES=$(ls -d runs/snli_elmo_seed*/model.tar.gz | paste -sd,)
//   allennlp train training_configs/ensemble.jsonnet -s runs/snli_ensemble
//   allennlp evaluate runs/snli_ensemble/model.tar.gz snli_1.0_test.jsonl
//
// The paper: SNLI accuracy 89.3 for five members, against 88.7 for one (A.3); SQuAD F1 87.4 for eleven, against 85.8.
local settings = import 'lib/settings.libsonnet';
local tasks = import 'lib/experiments.libsonnet';

// Members that differ from these by an ablation of the model alone are read in the same way.
local experiments = {
  [task + '/' + name]: tasks[task][name]
  for task in std.objectFields(tasks)
  for name in ['baseline', 'elmo']
};

local name = settings.required('ELMO_ENSEMBLE_OF');
local archives = [std.stripChars(path, ' ') for path in std.split(settings.required('ELMO_ENSEMBLE_ARCHIVES'), ',')];
local experiment =
  if name in experiments then experiments[name]
  else error "ELMO_ENSEMBLE_OF is '%s', but must be one of %s." % [name, std.join(', ', std.objectFields(experiments))];

{
  dataset_reader: std.get(experiment, 'validation_dataset_reader', experiment.dataset_reader),
  vocabulary: { type: 'from_files', directory: archives[0] },
  model: { type: 'elmo::ensemble', archives: archives },
  trainer: { type: 'no_op' },
  // An ensemble isn't trained, and a loader that keeps no instances reads nothing before it is asked to.
  train_data_path: 'nothing is read',
  data_loader: { batch_size: 1, max_instances_in_memory: 1 },
}
