// A translator of phase ir in AssemblyScript: a few kilobytes, no imports.
//
// The host writes each item of a request with its members in this order: kind, namespace (if any), name, readOnly (if
// true), value. That is all the JSON that this module has to understand.

const ITEM = '{"kind":"ir/Cluster","name":"';

export function abi_version(): i32 {
  return 1 << 16; // 1.0
}

export function alloc(size: i32): usize {
  heap.reset(); // one request at a time: everything of the last one is over
  return heap.alloc(size);
}

export function free(_at: usize, _size: i32): void {}

export function configure(_at: usize, _size: i32): u64 {
  return 0;
}

export function translate(at: usize, size: i32): u64 {
  const request = String.UTF8.decodeUnsafe(at, size);
  let operations = "";
  let from = request.indexOf(ITEM);
  while (from >= 0) {
    const start = from + ITEM.length;
    const end = request.indexOf('"', start);
    const name = request.substring(start, end);
    const next = request.indexOf(ITEM, end);
    const body = request.substring(end, next < 0 ? request.length : next);
    if (body.includes('"discovery":"strict_dns"') || body.includes('"discovery":"logical_dns"')) {
      if (operations.length > 0) operations += ",";
      operations +=
        '{"op":"patch","kind":"ir/Cluster","name":"' + name +
        '","patch":[{"op":"add","path":"/respectDnsTtl","value":true}],"reason":"DNS answers are good for their TTL"}';
    }
    from = next;
  }
  return operations.length > 0 ? give('{"operations":[' + operations + "]}") : 0;
}

function give(text: string): u64 {
  const bytes = String.UTF8.encode(text);
  return (changetype<usize>(bytes) as u64) << 32 | (bytes.byteLength as u64);
}

function abort(_message: string | null, _file: string | null, _line: u32, _column: u32): void {
  unreachable();
}
