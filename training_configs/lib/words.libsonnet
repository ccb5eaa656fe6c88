// Word vectors and character CNNs: the parts of x_k.
local settings = import 'settings.libsonnet';

local file = settings.string('ELMO_WORD_VECTORS');
local file_dim = settings.string('ELMO_WORD_VECTORS_DIM');
local turian_file = settings.string('ELMO_TURIAN_VECTORS');

{
  // Index words for `vectors`.
  indexer(lowercase=true):: { type: 'single_id', namespace: 'tokens', lowercase_tokens: lowercase },

  // Word vectors from the file in ELMO_WORD_VECTORS. Without one they start at random and are always trained, which the model's log says.
  vectors(dim, trainable=true):: {
    type: 'embedding',
    vocab_namespace: 'tokens',
    embedding_dim: if file != '' && file_dim != '' then std.parseInt(file_dim) else dim,
  } + if file == '' then { trainable: true } else { pretrained_file: file, trainable: trainable },

  // Turian et al.'s 50-d vectors beside the others, from the file in ELMO_TURIAN_VECTORS: what to add to the indexers and the embedders.
  turian: if turian_file == '' then { indexers: {}, embedders: {} } else {
    indexers: { turian: $.indexer(lowercase=false) },
    embedders: {
      turian: { type: 'embedding', vocab_namespace: 'tokens', embedding_dim: 50, pretrained_file: turian_file, trainable: false },
    },
  },

  // Index characters for `character_cnn`, whose widest filter must fit every word.
  character_indexer(min_padding_length):: { type: 'characters', namespace: 'token_characters', min_padding_length: min_padding_length },

  character_cnn(embedding_dim, num_filters, ngram_filter_sizes):: {
    type: 'elmo::character_encoding',
    embedding: { embedding_dim: embedding_dim, vocab_namespace: 'token_characters' },
    encoder: {
      type: 'cnn',
      embedding_dim: embedding_dim,
      num_filters: num_filters,
      ngram_filter_sizes: ngram_filter_sizes,
      conv_layer_activation: 'relu',
    },
  },
}
