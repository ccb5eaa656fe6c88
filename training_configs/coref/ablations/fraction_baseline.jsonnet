// Coreference on CoNLL-2012 without ELMo, on part of the training documents: Figure 1, for this task.
// ELMO_TRAIN_FRACTION says how much, above 0 and up to 1.
//
// Data: as in ../baseline.jsonnet.
//
//   ELMO_TRAIN_FRACTION=0.1 allennlp train \
//     training_configs/coref/ablations/fraction_baseline.jsonnet -s runs/coref_fraction_baseline
//
// The paper: no figure for this task; Figure 1 is on SNLI and SRL. fraction.jsonnet is the same with ELMo.
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../baseline.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
