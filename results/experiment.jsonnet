// One training behind RESULTS.md: an experiment of training_configs/ on a free corpus, with the budget that a setting
// gives its task.
//
//   RESULTS_TASK      squad, snli, srl, coref, ner or sst
//   RESULTS_VARIANT   baseline, elmo, elmo_finetuned, or an ablation of training_configs/lib/ablations.libsonnet; with
//                     what else was tried for the task's budget after a hyphen, as in baseline-paper_dropout
//   RESULTS_SETTING   quick or full: see budgets.libsonnet
local ablations = import '../training_configs/lib/ablations.libsonnet';
local experiments = import '../training_configs/lib/experiments.libsonnet';

local task = std.extVar('RESULTS_TASK');
local variant = std.split(std.extVar('RESULTS_VARIANT'), '-');
local own = experiments[task];
local budget = (import 'budgets.libsonnet')[std.extVar('RESULTS_SETTING')][task];

// What the readers need to be told about the corpora.
local verbs_only = { verbal_predicates_only: true };
local corpora = {
  srl: { dataset_reader+: verbs_only, validation_dataset_reader+: verbs_only },
  coref: { dataset_reader+: { genre_pattern: 'GUM_([a-z]+)_' } },
};

// Words are looked up in lower case, since the file of word vectors has no upper case. Characters keep their case.
local lower_cased(value) =
  if std.isArray(value) then std.map(lower_cased, value)
  else if std.isObject(value) then
    { [key]: lower_cased(value[key]) for key in std.objectFields(value) }
    + (if std.member(['single_id', 'elmo::words'], std.get(value, 'type')) then { lowercase_tokens: true } else {})
  else value;

// Part of the validation set, always the same.
local validated_on(fraction) = if fraction == 1 then {} else {
  local reader = if 'validation_dataset_reader' in super then super.validation_dataset_reader else super.dataset_reader,
  validation_dataset_reader: { type: 'elmo::fraction', reader: reader, fraction: fraction },
};

local experiment = if variant[0] in own then own[variant[0]] else own.elmo + ablations.of(task)[variant[0]];
local tried = if std.length(variant) == 1 then {} else budget.tried[variant[1]].changes;

lower_cased(experiment + std.get(corpora, task, {}) + budget.changes + tried)
+ validated_on(budget.validation_fraction)
