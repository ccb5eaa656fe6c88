// SST-5 with ELMo at the input and the output of the lowest biLSTM: row "SST-5" of Table 1 (test accuracy 54.7 +- 0.5
// in the paper).
//
// Data: the Stanford Sentiment Treebank's trees (https://nlp.stanford.edu/sentiment/, trainDevTestTrees_PTB.zip:
// train.txt, dev.txt, test.txt) and 300-d GloVe vectors (glove.840B.300d.txt).
//
//   export ELMO_SST_TRAIN=train.txt ELMO_SST_DEV=dev.txt ELMO_WORD_VECTORS=glove.840B.300d.txt
//   export ELMO_BILM=original     # the paper's biLM, fetched once; without this, the small one that ships
//   allennlp train training_configs/sst/elmo.jsonnet -s runs/sst_elmo
//   allennlp evaluate runs/sst_elmo/model.tar.gz test.txt
//
// The network's own dropout applies to ELMo's vectors at both placements, so they need no other.
local elmo = import '../lib/elmo.libsonnet';

(import 'base.libsonnet') + elmo.at(['input', 'output']) + elmo.dropout(0.0) + elmo.l2(0.001)
