// Words of a command line, as a shell of Unix reads and writes them; nothing is expanded.

const PLAIN = /^[\w@%+=:,./-]+$/;
const PIECE = /\s+|'([^']*)'|"((?:[^"\\]|\\[^])*)"|\\([^])|([^\s'"\\]+)/y;

/** `--name 'a b'` -> ["--name", "a b"]. Throws an Error that says what is wrong. */
export function splitWords(text) {
  const words = [];
  let word = null;
  PIECE.lastIndex = 0;
  while (PIECE.lastIndex < text.length) {
    const at = PIECE.lastIndex;
    const found = PIECE.exec(text);
    if (!found) throw new Error(`${text[at]} has nothing to close it, in ${text.slice(at, at + 40)}`);
    const [, single, double, escaped, plain] = found;
    const piece = single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped ?? plain;
    if (piece !== undefined) word = (word ?? "") + piece;
    else if (word !== null) words.push(word);
    if (piece === undefined) word = null;
  }
  return word === null ? words : [...words, word];
}

export const joinWords = (words) =>
  words.map((word) => (PLAIN.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`)).join(" ");
