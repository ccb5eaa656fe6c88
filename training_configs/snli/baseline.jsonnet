// ESIM on SNLI without ELMo: row "SNLI", column "our baseline" of Table 1.
//
// Data: snli_1.0.zip from https://nlp.stanford.edu/projects/snli, and glove.840B.300d.zip from
// https://nlp.stanford.edu/projects/glove.
//
//   export ELMO_SNLI_TRAIN=snli_1.0_train.jsonl ELMO_SNLI_DEV=snli_1.0_dev.jsonl ELMO_WORD_VECTORS=glove.840B.300d.txt
//   allennlp train training_configs/snli/baseline.jsonnet -s runs/snli_baseline
//   allennlp evaluate runs/snli_baseline/model.tar.gz snli_1.0_test.jsonl
//
// The paper: accuracy 88.0 on the test set, 88.1 on the dev set (Table 2).
import 'base.libsonnet'
