// An ablation of elmo.jsonnet: the one that ELMO_ABLATION names, of those in ../lib/ablations.libsonnet. Data: as in
// elmo.jsonnet.
//
//   ELMO_ABLATION=top_layer_only allennlp train training_configs/sst/ablation.jsonnet -s runs/sst_top_layer_only
//   ELMO_ABLATION=fraction ELMO_TRAIN_FRACTION=0.1 allennlp train training_configs/sst/ablation.jsonnet -s runs/sst_tenth
//
// The paper's figures, where it has any, are those that 'allennlp elmo-analyze ablations training_configs/sst' prints
// beside ours.
(import '../lib/ablations.libsonnet').select('sst', import 'baseline.jsonnet', import 'elmo.jsonnet')
