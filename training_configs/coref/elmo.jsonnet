// Coreference on CoNLL-2012 with ELMo at the input of the biLSTM: row "Coref", column "ELMo + baseline" of Table 1.
//
// Data: as in baseline.jsonnet. The biLM: by name, by its two files or by an archive; see ../lib/elmo.libsonnet.
//
//   export ELMO_COREF_TRAIN=train.english.v4_gold_conll ELMO_COREF_DEV=dev.english.v4_gold_conll
//   export ELMO_WORD_VECTORS=glove.840B.300d.txt ELMO_WORD_VECTORS_DIM=300
//   export ELMO_BILM=original     # the paper's biLM, fetched once; without this, the small one that ships
//   allennlp train training_configs/coref/elmo.jsonnet -s runs/coref_elmo
//   allennlp evaluate runs/coref_elmo/model.tar.gz test.english.v4_gold_conll
//
// The paper: average F1 70.4 on the test set.
local elmo = import '../lib/elmo.libsonnet';

// Lambda is 0: the layer weights are free. The term is there for ablations to change.
(import 'base.libsonnet') + elmo.at(['input']) + elmo.dropout(0.5) + elmo.l2(0.0)
