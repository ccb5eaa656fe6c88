// Semantic role labeling on OntoNotes without ELMo: row "SRL", column "our baseline" of Table 1.
//
// Data: OntoNotes 5.0, https://catalog.ldc.upenn.edu/LDC2013T19, in the columns and with the split of CoNLL-2012,
// https://github.com/ontonotes/conll-formatted-ontonotes-5.0. The word vectors are glove.6B.100d.txt of
// https://nlp.stanford.edu/projects/glove.
//
//   export ELMO_SRL_TRAIN=conll-2012/train ELMO_SRL_DEV=conll-2012/development ELMO_WORD_VECTORS=glove.6B.100d.txt
//   allennlp train training_configs/srl/baseline.jsonnet -s runs/srl_baseline
//   allennlp evaluate runs/srl_baseline/model.tar.gz conll-2012/test
//
// The paper: F1 81.4 on the test set; on the dev set 81.6 (Table 2), at epoch 486.
import 'base.libsonnet'
