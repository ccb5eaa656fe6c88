// ESIM on SNLI with an ELMo whose biLM was first tuned on SNLI's own sentences (A.1 and A.3).
//
// Data: as in elmo.jsonnet. ELMO_FINETUNED_ARCHIVE: the model.tar.gz of training_configs/bilm/finetune.jsonnet, run on
// the premises and hypotheses of the training set.
//
//   allennlp train training_configs/snli/elmo_finetuned.jsonnet -s runs/snli_elmo_finetuned
//
// The paper: dev accuracy 89.5, against 88.9 without tuning; the biLM's perplexity falls from 72.1 to 16.8 (Table 7).
local elmo = import '../lib/elmo.libsonnet';

(import 'elmo.jsonnet') + elmo.finetuned
