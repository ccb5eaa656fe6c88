// Tunes a biLM on a task's text or a domain's (A.1): one epoch, labels ignored, then frozen in the task by
// <task>/elmo_finetuned.jsonnet. The paper's perplexities on dev text, before -> after: SNLI 72.1 -> 16.8, CoNLL-2003
// 103.2 -> 46.3, SST 131.5 -> 78.6, SQuAD contexts 99.1 -> 43.5 and questions 158.2 -> 52.0.
//
// ELMO_BILM is the language model to continue from (start.libsonnet says which can be). The text is ELMO_BILM_TRAIN and
// ELMO_BILM_DEV, or a task's: ELMO_FINETUNE_TASK.
//
//   ELMO_BILM=wiki-base ELMO_BILM_TRAIN=bio.train.txt ELMO_BILM_DEV=bio.dev.txt \
//     allennlp train training_configs/bilm/finetune.jsonnet -s runs/finetuned
//   allennlp evaluate wiki-base bio.dev.txt       # before; runs/finetuned/metrics.json is after
local trainer = import '../lib/trainer.libsonnet';

trainer.experiment((import 'base.libsonnet') + (import 'task_text.libsonnet') + (import 'start.libsonnet') + {
  num_epochs:: 1,
  // A quarter of the rate for training: on a few thousand sentences 0.2 made the perplexity worse that 0.05 made
  // better.
  learning_rate:: 0.05,
  model+: { bilm+: { dropout: 0.1 } },
})
