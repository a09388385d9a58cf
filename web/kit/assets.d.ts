declare module '*.css';
declare module '*.svg' {
  const url: string;
  export default url;
}
declare module 'rapidoc/dist/rapidoc-min.js';
