// @ts-check
// The axis of a plot: round marks from zero to a little above the highest value.

/**
 * @param {number} highest
 * @returns {{max: number, marks: number[]}}
 */
export function buildScale(highest) {
  if (!(highest > 0) || !Number.isFinite(highest)) return { max: 1, marks: [0, 1] };
  const rough = highest / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((each) => each * power >= rough) ?? 10) * power;
  const count = Math.max(1, Math.ceil(highest / step - 1e-9));
  return { max: step * count, marks: Array.from({ length: count + 1 }, (_, place) => Number((place * step).toPrecision(12))) };
}
