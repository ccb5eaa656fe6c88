// BiDAF with self-attention on SQuAD without ELMo: row "SQuAD", column "our baseline" of Table 1.
//
// Data: train-v1.1.json and dev-v1.1.json from https://rajpurkar.github.io/SQuAD-explorer, and glove.840B.300d.zip from
// https://nlp.stanford.edu/projects/glove.
//
//   export ELMO_SQUAD_TRAIN=train-v1.1.json ELMO_SQUAD_DEV=dev-v1.1.json ELMO_WORD_VECTORS=glove.840B.300d.txt
//   allennlp train training_configs/squad/baseline.jsonnet -s runs/squad_baseline
//   allennlp evaluate runs/squad_baseline/model.tar.gz dev-v1.1.json
//
// The paper: F1 81.1 on the test set, which isn't public, and 80.8 on the dev set (Table 2).
import 'base.libsonnet'
