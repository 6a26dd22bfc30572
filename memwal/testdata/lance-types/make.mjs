// Writes the log beside this file: node make.mjs DIR, with @lancedb/lancedb 0.39.0,
// apache-arrow 18.1.0 and Node 20. The log is then in DIR/t.lance/_mem_wal.
//
// A second argument is the number of rows, 24 here. Each value follows from the row's
// id alone, except rev, which counts the merges.
import * as lancedb from "@lancedb/lancedb";
import * as A from "apache-arrow";

const [dir, count] = [process.argv[2], Number(process.argv[3] ?? 24)];
const item = type => new A.Field("item", type, true);
const types = {
  id: new A.Int64(), rev: new A.Int32(),
  i8: new A.Int8(), i16: new A.Int16(), u32: new A.Uint32(), u64: new A.Uint64(), f32: new A.Float32(), flag: new A.Bool(),
  us: new A.TimestampMicrosecond("UTC"), ns: new A.TimestampNanosecond(), day: new A.DateDay(), tm: new A.TimeMicrosecond(),
  dur: new A.DurationMillisecond(), dec: new A.Decimal(2, 10, 128),
  text: new A.Utf8(), bin: new A.Binary(), fsb: new A.FixedSizeBinary(3),
  tags: new A.List(item(new A.Utf8())), vec: new A.FixedSizeList(4, item(new A.Float32())),
  st: new A.Struct([new A.Field("a", new A.Int32(), true), new A.Field("b", new A.Utf8(), true)]),
  points: new A.List(item(new A.Struct([new A.Field("x", new A.Float64(), true)]))),
  color: new A.Dictionary(new A.Utf8(), new A.Int32(), 7),
};
const names = Object.keys(types);
const schema = new A.Schema(names.map(n => new A.Field(n, types[n], n !== "id")));
const upTo = (n, f) => Array.from({length: n}, (_, k) => f(k));

const values = {
  id: i => BigInt(i), i8: i => i % 100 - 50, i16: i => i * 3 - 1000, u32: i => 4000000000 + i, u64: i => (1n << 63n) + BigInt(i), f32: i => i / 2,
  flag: i => i % 5 === 4 ? null : i % 2 === 0,
  text: i => i % 10 === 9 ? null : "Zeile über " + i,
  bin: i => i % 8 === 7 ? null : new Uint8Array([i & 255, 0, 255]),
  fsb: i => new Uint8Array([i & 255, 1, 2]),
  tags: i => i % 7 === 6 ? null : upTo(i % 4, k => k === 2 ? null : `t${k}-${i}`),
  vec: i => [i, i + 0.25, i + 0.5, i + 0.75],
  st: i => i % 6 === 5 ? null : {a: i % 4 === 3 ? null : i, b: "b" + i},
  points: i => upTo(i % 3, k => ({x: i + k / 4})),
};
const raw = { // these lose digits in JavaScript's numbers
  us: ids => BigInt64Array.from(ids, i => 1700000000000000n + BigInt(i) * 1001n),
  ns: ids => BigInt64Array.from(ids, i => 1700000000000000000n + BigInt(i)),
  day: ids => Int32Array.from(ids, i => 19000 + i),
  tm: ids => BigInt64Array.from(ids, i => BigInt(i) * 1000003n % 86400000000n),
  dur: ids => BigInt64Array.from(ids, i => BigInt(i) * 5n),
  dec: ids => Uint32Array.from(ids.flatMap(i => [i * 100 + 7, 0, 0, 0])),
};
const colors = i => i % 9 === 8 ? null : ["red", "green", "blue"][i % 3];

function column(n, ids, rev, dictionary) {
  const length = ids.length, type = types[n];
  if (n === "color") {
    const nullBitmap = new Uint8Array(length + 7 >> 3);
    ids.forEach((i, k) => { if (colors(i) !== null) nullBitmap[k >> 3] |= 1 << (k & 7); });
    const data = Int32Array.from(ids, i => Math.max([...dictionary].indexOf(colors(i)), 0));
    return A.makeVector(A.makeData({type, length, data, nullBitmap, dictionary}));
  }
  if (n === "rev") return A.vectorFromArray(ids.map(() => rev), type);
  if (raw[n]) return A.makeVector(A.makeData({type, length, data: raw[n](ids), nullCount: 0}));
  return A.vectorFromArray(ids.map(values[n]), type);
}
const batch = (ids, rev, dictionary) => new A.Table(schema, Object.fromEntries(names.map(n => [n, column(n, ids, rev, dictionary)])));

const db = await lancedb.connect(dir);
const t = await db.createEmptyTable("t", schema);
await t.setUnenforcedPrimaryKey("id");
await t.setLsmWriteSpec({specType: "unsharded", maintainedIndexes: []});
const merge = rows => t.mergeInsert("id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(rows);

const [first, second] = [["red", "green", "blue"], ["blue", "red", "green", "unused"]].map(d => A.vectorFromArray(d, new A.Utf8()));
const half = count >> 1;
await merge(batch(upTo(half, k => k), 1, first));
await merge(batch(upTo(count - half, k => half + k), 2, first).concat(batch([0, 1, 2], 2, first)));
await merge(batch(upTo(Math.ceil(count / 3), k => 3 * k), 3, second));
console.log((await t.query().limit(count * 2).toArray()).length, "rows");
process.kill(process.pid, "SIGKILL"); // closing would flush the log away
