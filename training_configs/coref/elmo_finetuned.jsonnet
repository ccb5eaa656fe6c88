// Coreference on CoNLL-2012 with an ELMo whose biLM was first tuned on the sentences of CoNLL-2012.
//
// Data: as in elmo.jsonnet. ELMO_FINETUNED_ARCHIVE: the model.tar.gz of training_configs/bilm/finetune.jsonnet, run on
// the sentences of the training set.
//
//   allennlp train training_configs/coref/elmo_finetuned.jsonnet -s runs/coref_elmo_finetuned
//
// The paper: not tuned for this task; the biLM's perplexity on CoNLL-2012 is 92.3 (Table 7).
local elmo = import '../lib/elmo.libsonnet';

(import 'elmo.jsonnet') + elmo.finetuned
