// Coreference on CoNLL-2012 without ELMo: row "Coref", column "our baseline" of Table 1.
//
// Data: the English files of the CoNLL-2012 shared task, https://conll.cemantix.org/2012/data.html, made from OntoNotes
// 5.0, https://catalog.ldc.upenn.edu/LDC2013T19, and joined into one file each. The word vectors:
// https://nlp.stanford.edu/projects/glove (840B, 300-d).
//
//   cat $(find train -name '*.v4_gold_conll') > train.english.v4_gold_conll       # and dev, test likewise
//   export ELMO_COREF_TRAIN=train.english.v4_gold_conll ELMO_COREF_DEV=dev.english.v4_gold_conll
//   export ELMO_WORD_VECTORS=glove.840B.300d.txt ELMO_WORD_VECTORS_DIM=300
//   allennlp train training_configs/coref/baseline.jsonnet -s runs/coref_baseline
//   allennlp evaluate runs/coref_baseline/model.tar.gz test.english.v4_gold_conll
//
// The paper: average F1 67.2 on the test set.
import 'base.libsonnet'
