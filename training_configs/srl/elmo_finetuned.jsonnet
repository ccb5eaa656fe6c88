// Semantic role labeling on OntoNotes with an ELMo whose biLM was first tuned on the sentences of OntoNotes (A.1).
//
// Data: as in elmo.jsonnet. ELMO_FINETUNED_ARCHIVE: the model.tar.gz of training_configs/bilm/finetune.jsonnet, run on
// the sentences of the training set.
//
//   allennlp train training_configs/srl/elmo_finetuned.jsonnet -s runs/srl_elmo_finetuned
//
// The paper: the biLM wasn't tuned for this task; its perplexity on the text of CoNLL-2012 is 92.3 (Table 7).
local elmo = import '../lib/elmo.libsonnet';

(import 'elmo.jsonnet') + elmo.finetuned
