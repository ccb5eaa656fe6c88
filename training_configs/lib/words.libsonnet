// Word vectors and character CNNs: the parts of x_k.
local settings = import 'settings.libsonnet';

local file = settings.string('ELMO_WORD_VECTORS');
local file_dim = settings.string('ELMO_WORD_VECTORS_DIM');
local turian_file = settings.string('ELMO_TURIAN_VECTORS');

{
  // Index words for `vectors`: as they are written or in lower case, and with their numbers or, as in Senna's list,
  // with 0 for each.
  indexer(lowercase=true, zero_numbers=false):: {
    type: 'elmo::words',
    namespace: 'tokens',
    lowercase_tokens: lowercase,
    zero_numbers: zero_numbers,
  },

  // Word vectors from the file in ELMO_WORD_VECTORS, all of which goes into the archive: words that only the test data
  // have are found too. Without a file they start at random and are always trained.
  vectors(dim, trainable=true):: {
    type: 'elmo::word_vectors',
    vocab_namespace: 'tokens',
    embedding_dim: if file != '' && file_dim != '' then std.parseInt(file_dim) else dim,
  } + if file == '' then { trainable: true } else { pretrained_file: file, trainable: trainable },

  // Vectors of length 1, and zeros where the file has none: what to add to `vectors`.
  scaled:: { unit_length: true, missing: 'zeros' },

  // Turian et al.'s 50-d vectors beside the others, from the file in ELMO_TURIAN_VECTORS: what to add to the indexers
  // and the embedders.
  turian: if turian_file == '' then { indexers: {}, embedders: {} } else {
    indexers: { turian: $.indexer(lowercase=false) },
    embedders: {
      turian: {
        type: 'elmo::word_vectors',
        name: 'turian',
        vocab_namespace: 'tokens',
        embedding_dim: 50,
        pretrained_file: turian_file,
        trainable: false,
      },
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
