// ELMo in a model that knows nothing about it: AllenNLP's own simple_tagger, with one more indexer and one more token
// embedder.
//
//   allennlp train training_configs/examples/simple_tagger_elmo.jsonnet -s runs/tagger
//   allennlp evaluate runs/tagger/model.tar.gz fixtures/data/demo/tagged.dev.txt
//   echo '{"sentence": "the watch will turn"}' > in.jsonl; allennlp predict runs/tagger/model.tar.gz in.jsonl --predictor elmo::sentence_tagger
//
// The biLM is the one that ships with the plugin, unless a variable says otherwise; see ../lib/elmo.libsonnet.
local elmo = import '../lib/elmo.libsonnet';

(import 'simple_tagger_baseline.jsonnet') {
  local elmo_dim = 32,
  encoder_dim+:: elmo_dim,
  dataset_reader+: { token_indexers+: { elmo: { type: 'elmo::characters' } } },
  model+: {
    text_field_embedder+: {
      token_embedders+: {
        elmo: {
          type: 'elmo::token_embedder',
          bilm: elmo.bilm,
          dropout: 0.2,
          // simple_tagger's encoder is told its width in the config, which can't see how wide a biLM is.
          projection_dim: elmo_dim,
        },
      },
    },
  },
}
