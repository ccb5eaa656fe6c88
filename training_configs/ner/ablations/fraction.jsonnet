// NER on CoNLL-2003 with ELMo, on part of the training set: Figure 1, for this task. ELMO_TRAIN_FRACTION says how much,
// from 0.001 to 1.
//
// Data: as in ../elmo.jsonnet.
//
//   ELMO_TRAIN_FRACTION=0.01 allennlp train training_configs/ner/ablations/fraction.jsonnet -s runs/ner_fraction
//
// The paper: no figure for this task; Figure 1 is on SNLI and SRL. fraction_baseline.jsonnet is the same without ELMo.
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../elmo.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
