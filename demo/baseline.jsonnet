// training_configs/ner/baseline.jsonnet on few sentences; ELMO_TRAIN_FRACTION says how few.
(import '../training_configs/ner/baseline.jsonnet') + (import 'few_sentences.libsonnet')
