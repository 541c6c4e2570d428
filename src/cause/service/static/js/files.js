// What kind of file this is, by its name, as the service names it.

const TYPES = {
  csv: "text/csv", npz: "application/x-npz", safetensors: "application/vnd.safetensors", json: "application/json",
  png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", webp: "image/webp", bmp: "image/bmp",
};

export const typeOf = (file) => TYPES[file.name.split(".").at(-1).toLowerCase()] ?? "application/octet-stream";
export const isPicture = (file) => typeOf(file).startsWith("image/");
