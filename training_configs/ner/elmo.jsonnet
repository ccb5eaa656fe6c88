// NER on CoNLL-2003 with ELMo at the input of the lowest biLSTM: row "NER", column "ELMo + baseline" of Table 1.
//
// Data: as in baseline.jsonnet. The biLM: by name, by its two files or by an archive; see ../lib/elmo.libsonnet.
//
//   export ELMO_NER_TRAIN=eng.train ELMO_NER_DEV=eng.testa ELMO_WORD_VECTORS=senna.txt
//   export ELMO_BILM=original     # the paper's biLM, fetched once; without this, the small one that ships
//   allennlp train training_configs/ner/elmo.jsonnet -s runs/ner_elmo
//   allennlp evaluate runs/ner_elmo/model.tar.gz eng.testb
//
// The paper: F1 92.22 +- 0.10 on the test set, over five seeds (ELMO_SEED).
local elmo = import '../lib/elmo.libsonnet';

// A.7 mentions no dropout but the biLSTMs' own, which is on the ELMo vectors too.
(import 'base.libsonnet') + elmo.at(['input']) + elmo.dropout(0.0) + elmo.l2(0.1)
