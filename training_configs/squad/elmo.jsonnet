// BiDAF with self-attention on SQuAD with ELMo at input and output of the contextual GRU: row "SQuAD", column "ELMo +
// baseline" of Table 1.
//
// Data: as in baseline.jsonnet. The biLM: by name, by its two files or by an archive; see ../lib/elmo.libsonnet.
//
//   export ELMO_SQUAD_TRAIN=train-v1.1.json ELMO_SQUAD_DEV=dev-v1.1.json ELMO_WORD_VECTORS=glove.840B.300d.txt
//   export ELMO_BILM=original     # the paper's biLM, fetched once; without this, the small one that ships
//   allennlp train training_configs/squad/elmo.jsonnet -s runs/squad_elmo
//   allennlp evaluate runs/squad_elmo/model.tar.gz dev-v1.1.json
//
// The paper: F1 85.8 and exact match 78.6 on the test set, which isn't public, and 87.4 and 81.0 for an ensemble of
// eleven (../ensemble.jsonnet); F1 85.6 on the dev set (Table 3). No layer normalisation, and lambda 0.
local elmo = import '../lib/elmo.libsonnet';

(import 'base.libsonnet') + elmo.at(['input', 'output']) + elmo.dropout(0.5)
