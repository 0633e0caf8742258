/* A zip file of a few texts, stored without compression. */

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

function checksum(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 0xff] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

/** Numbers of two ("s") or four ("l") bytes, the lowest byte first. */
function packed(form, ...values) {
  const bytes = [];
  values.forEach((value, at) => {
    for (let byte = 0; byte < (form[at] === "s" ? 2 : 4); byte += 1) bytes.push(Math.floor(value / 256 ** byte) & 0xff);
  });
  return Uint8Array.from(bytes);
}

// 1 January 1980: the files say nothing of when they were made.
const [TIME, DATE] = [0, 33];
// Names are UTF-8; nothing is compressed; version 2.0 is all a reader needs.
const [UTF8, STORED, VERSION] = [0x800, 0, 20];

/** A blob of type zip that holds the texts of an object under their names. */
export function zipped(texts) {
  const encoder = new TextEncoder();
  const files = [];
  const directory = [];
  let at = 0;
  for (const [name, text] of Object.entries(texts)) {
    const [path, bytes] = [encoder.encode(name), encoder.encode(text)];
    const about = [UTF8, STORED, TIME, DATE, checksum(bytes), bytes.length, bytes.length, path.length, 0];
    files.push(packed("lssssslllss", 0x04034b50, VERSION, ...about), path, bytes);
    directory.push(packed("lsssssslllsssssll", 0x02014b50, VERSION, VERSION, ...about, 0, 0, 0, 0, at), path);
    at += 30 + path.length + bytes.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const n = Object.keys(texts).length;
  const end = packed("lsssslls", 0x06054b50, 0, 0, n, n, size, at, 0);
  return new Blob([...files, ...directory, end], { type: "application/zip" });
}
