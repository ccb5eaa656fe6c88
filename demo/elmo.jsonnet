// training_configs/ner/elmo.jsonnet on few sentences; ELMO_TRAIN_FRACTION says how few.
(import '../training_configs/ner/elmo.jsonnet') + (import 'few_sentences.libsonnet')
