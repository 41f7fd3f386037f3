;; A translator in WebAssembly text: it looks for a direct response in the unit, and reports one finding if there is any.
;; The request lies at 65536; everything below is the module's own.
(module
  (memory (export "memory") 2 16)
  (data (i32.const 1024) "\"direct\":{")
  (data (i32.const 2048) "{\"diagnostics\":[{\"severity\":\"info\",\"message\":\"the unit has a direct response\",\"help\":\"is the maintenance over?\"}]}")

  (func (export "abi_version") (result i32) (i32.const 0x10000))

  ;; alloc grows the memory until the request fits.
  (func (export "alloc") (param $size i32) (result i32)
    (local $missing i32)
    (local.set $missing
      (i32.sub
        (i32.shr_u (i32.add (local.get $size) (i32.const 131071)) (i32.const 16))
        (memory.size)))
    (if (i32.gt_s (local.get $missing) (i32.const 0))
      (then (if (i32.eq (memory.grow (local.get $missing)) (i32.const -1))
        (then (return (i32.const 0))))))
    (i32.const 65536))

  (func (export "free") (param i32 i32))
  (func (export "configure") (param i32 i32) (result i64) (i64.const 0))

  ;; matches says whether the ten bytes at $at are those at 1024.
  (func $matches (param $at i32) (result i32)
    (i32.and
      (i64.eq (i64.load (local.get $at)) (i64.load (i32.const 1024)))
      (i32.eq (i32.load16_u offset=8 (local.get $at)) (i32.load16_u offset=8 (i32.const 1024)))))

  (func (export "translate") (param $at i32) (param $size i32) (result i64)
    (local $end i32)
    (local.set $end (i32.sub (i32.add (local.get $at) (local.get $size)) (i32.const 10)))
    (block $none
      (loop $next
        (br_if $none (i32.gt_u (local.get $at) (local.get $end)))
        (if (call $matches (local.get $at))
          (then (return (i64.or (i64.shl (i64.const 2048) (i64.const 32)) (i64.const 114)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i64.const 0)))
