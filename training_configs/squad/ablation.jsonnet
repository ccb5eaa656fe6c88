// An ablation of elmo.jsonnet: the one that ELMO_ABLATION names, of those in ../lib/ablations.libsonnet. Data: as in
// elmo.jsonnet.
//
//   ELMO_ABLATION=top_layer_only allennlp train training_configs/squad/ablation.jsonnet -s runs/squad_top_layer_only
//   ELMO_ABLATION=fraction ELMO_TRAIN_FRACTION=0.1 allennlp train training_configs/squad/ablation.jsonnet -s runs/squad_tenth
//
// The paper's figures, where it has any, are those that 'allennlp elmo-analyze ablations training_configs/squad' prints
// beside ours.
(import '../lib/ablations.libsonnet').select('squad', import 'baseline.jsonnet', import 'elmo.jsonnet')
