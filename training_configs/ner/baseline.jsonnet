// NER on CoNLL-2003 without ELMo: row "NER", column "our baseline" of Table 1.
//
// Data: eng.train, eng.testa (dev) and eng.testb (test) of the shared task,
// https://www.clips.uantwerpen.be/conll2003/ner, whose text is the Reuters Corpus,
// https://trec.nist.gov/data/reuters/reuters.html. The word vectors are in two files of
// https://ronan.collobert.com/senna, to be put side by side.
//
//   paste -d ' ' hash/words.lst embeddings/embeddings.txt > senna.txt
//   export ELMO_NER_TRAIN=eng.train ELMO_NER_DEV=eng.testa ELMO_WORD_VECTORS=senna.txt
//   allennlp train training_configs/ner/baseline.jsonnet -s runs/ner_baseline
//   allennlp evaluate runs/ner_baseline/model.tar.gz eng.testb
//
// The paper: F1 90.15 on the test set, over five seeds (ELMO_SEED).
import 'base.libsonnet'
