"""What MindSpore and mindformers are like: versions, facts, primitives, names of scopes, seams."""
