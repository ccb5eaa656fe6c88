// First step of tuning a biLM that comes as HDF5 + options.json, which hold no softmax: fits a softmax over the words
// of the new text with the biLM frozen. The held-out perplexity it ends with is the "before" of A.1; its archive is
// what finetune.jsonnet goes on from.
//
// The text is ELMO_BILM_TRAIN and ELMO_BILM_DEV, or that of a task's own files: ELMO_FINETUNE_TASK=snli with
// ELMO_SNLI_TRAIN and _DEV.
//
//   ELMO_BILM=original allennlp train training_configs/bilm/fit_softmax.jsonnet -s runs/fit_softmax
//   ELMO_BILM=runs/fit_softmax/model.tar.gz allennlp train training_configs/bilm/finetune.jsonnet -s runs/finetuned
local elmo = import '../lib/elmo.libsonnet';
local trainer = import '../lib/trainer.libsonnet';

trainer.experiment((import 'base.libsonnet') + (import 'task_text.libsonnet') + {
  num_epochs:: 5,
  model+: { bilm: elmo.bilm },
  trainer+: { no_grad: ['^bilm'], patience: 1 },
})
