// Coreference on CoNLL-2012 with ELMo, on part of the training documents: Figure 1, for this task. ELMO_TRAIN_FRACTION
// says how much, above 0 and up to 1.
//
// Data: as in ../elmo.jsonnet.
//
//   ELMO_TRAIN_FRACTION=0.1 allennlp train training_configs/coref/ablations/fraction.jsonnet -s runs/coref_fraction
//
// The paper: no figure for this task; Figure 1 is on SNLI and SRL. fraction_baseline.jsonnet is the same without ELMo.
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../elmo.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
