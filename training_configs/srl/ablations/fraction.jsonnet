// Semantic role labeling on OntoNotes with ELMo, on part of the training set: Figure 1. ELMO_TRAIN_FRACTION says how
// much, from 0.001 to 1.
//
// Data: as in ../elmo.jsonnet.
//
//   ELMO_TRAIN_FRACTION=0.01 allennlp train training_configs/srl/ablations/fraction.jsonnet -s runs/srl_elmo_part
//
// The paper: a curve; 1 % of the training set with ELMo is about as good as 10 % without (fraction_baseline.jsonnet).
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../elmo.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
