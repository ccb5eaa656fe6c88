// NER on CoNLL-2003 without ELMo, on part of the training set: Figure 1, for this task. ELMO_TRAIN_FRACTION says how
// much, from 0.001 to 1.
//
// Data: as in ../baseline.jsonnet.
//
//   ELMO_TRAIN_FRACTION=0.01 allennlp train training_configs/ner/ablations/fraction_baseline.jsonnet -s runs/ner_fraction_baseline
//
// The paper: no figure for this task; Figure 1 is on SNLI and SRL. fraction.jsonnet is the same with ELMo.
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../baseline.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
