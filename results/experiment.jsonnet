// One training behind RESULTS.md: an experiment of training_configs/ with the budget that a setting gives its task.
//
//   RESULTS_TASK      squad, snli, srl, coref, ner or sst
//   RESULTS_VARIANT   baseline, elmo, elmo_finetuned, or an ablation of training_configs/lib/ablations.libsonnet
//   RESULTS_SETTING   quick or full: see budgets.libsonnet
local ablations = import '../training_configs/lib/ablations.libsonnet';
local experiments = import '../training_configs/lib/experiments.libsonnet';

local task = std.extVar('RESULTS_TASK');
local variant = std.extVar('RESULTS_VARIANT');
local own = experiments[task];

(if variant in own then own[variant] else own.elmo + ablations.of(task)[variant])
+ (import 'budgets.libsonnet')[std.extVar('RESULTS_SETTING')][task].changes
