// BiDAF with self-attention on SQuAD with an ELMo whose biLM was first tuned on SQuAD's own text (A.1).
//
// Data: as in elmo.jsonnet. ELMO_FINETUNED_ARCHIVE: the model.tar.gz of training_configs/bilm/finetune.jsonnet, run on
// the passages and questions of the training set.
//
//   allennlp train training_configs/squad/elmo_finetuned.jsonnet -s runs/squad_elmo_finetuned
//
// The paper has no score for this; the biLM's perplexity falls from 99.1 to 43.5 on passages, and from 158.2 to 52.0 on
// questions (Table 7).
local elmo = import '../lib/elmo.libsonnet';

(import 'elmo.jsonnet') + elmo.finetuned
