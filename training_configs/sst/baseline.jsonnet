// SST-5 without ELMo: the baseline in row "SST-5" of Table 1 (test accuracy 51.4 in the paper, for McCann et al.'s
// network).
//
// Data: the Stanford Sentiment Treebank's trees (https://nlp.stanford.edu/sentiment/, trainDevTestTrees_PTB.zip:
// train.txt, dev.txt, test.txt) and 300-d GloVe vectors (glove.840B.300d.txt).
//
//   export ELMO_SST_TRAIN=train.txt ELMO_SST_DEV=dev.txt ELMO_WORD_VECTORS=glove.840B.300d.txt
//   allennlp train training_configs/sst/baseline.jsonnet -s runs/sst
//   allennlp evaluate runs/sst/model.tar.gz test.txt
import 'base.libsonnet'
