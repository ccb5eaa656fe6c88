// Semantic role labeling on OntoNotes with ELMo at the input: row "SRL", column "ELMo + baseline" of Table 1.
//
// Data: as in baseline.jsonnet. The biLM: by name, by its two files or by an archive; see ../lib/elmo.libsonnet.
//
//   export ELMO_SRL_TRAIN=conll-2012/train ELMO_SRL_DEV=conll-2012/development ELMO_WORD_VECTORS=glove.6B.100d.txt
//   export ELMO_BILM=original     # the paper's biLM, fetched once; without this, the small one that ships
//   allennlp train training_configs/srl/elmo.jsonnet -s runs/srl_elmo
//   allennlp evaluate runs/srl_elmo/model.tar.gz conll-2012/test
//
// The paper: F1 84.6 on the test set; on the dev set 84.8 (Table 2). The baseline's best is passed at epoch 10.
local elmo = import '../lib/elmo.libsonnet';

// A.5 has no dropout on the ELMo vectors; 0.1 is what AllenNLP's own experiment has, and the rate of the LSTMs.
(import 'base.libsonnet') + elmo.at(['input']) + elmo.dropout(0.1) + elmo.l2(0.001)
