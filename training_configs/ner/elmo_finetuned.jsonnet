// NER on CoNLL-2003 with an ELMo whose biLM was first tuned on the sentences of CoNLL-2003 (A.1).
//
// Data: as in elmo.jsonnet. ELMO_FINETUNED_ARCHIVE: the model.tar.gz of training_configs/bilm/finetune.jsonnet, run on
// the sentences of the training set.
//
//   allennlp train training_configs/ner/elmo_finetuned.jsonnet -s runs/ner_elmo_finetuned
//
// The paper: the biLM's perplexity falls from 103.2 to 46.3 (Table 7); no F1 is given for it alone.
local elmo = import '../lib/elmo.libsonnet';

(import 'elmo.jsonnet') + elmo.finetuned
