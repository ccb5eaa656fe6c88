// Semantic role labeling on OntoNotes without ELMo, on part of the training set: Figure 1. ELMO_TRAIN_FRACTION says how
// much, from 0.001 to 1.
//
// Data: as in ../baseline.jsonnet.
//
//   ELMO_TRAIN_FRACTION=0.01 allennlp train training_configs/srl/ablations/fraction_baseline.jsonnet -s runs/srl_part
//
// The paper: a curve; fraction.jsonnet is the one above it.
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../baseline.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
